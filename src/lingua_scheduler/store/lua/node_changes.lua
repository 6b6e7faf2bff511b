-- Tell which nodes of a pool changed since a version: {version, complete, ids}, or {} when none did.
-- KEYS: version changes leases
-- ARGV: since
local current = tonumber(redis.call('GET', version) or 0)
local from = tonumber(since)
if current == from then
  return {}
end
local complete = from <= 0 or from > current or current - from > 10000
local ids = complete and redis.call('ZRANGE', leases, 0, -1)
  or redis.call('ZRANGEBYSCORE', changes, '(' .. from, '+inf')
return {tostring(current), complete and '1' or '0', ids}
