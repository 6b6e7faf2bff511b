-- Tell which nodes of a pool changed since a version: {version, complete, ids}, or {} when none did.
-- KEYS: version changes leases
-- ARGV: since
local current = redis.call('GET', version) or '0'
if current == since then
  return {}
end
local from, newest = tonumber(since), tonumber(current)
local complete = from <= 0 or from > newest or newest - from > 10000
local ids = complete and redis.call('ZRANGE', leases, 0, -1)
  or redis.call('ZRANGEBYSCORE', changes, '(' .. since, '+inf')
return {current, complete and '1' or '0', ids}
