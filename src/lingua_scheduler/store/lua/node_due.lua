-- Name at most `most` nodes whose lease is over, and reservations whose time is over with their nodes.
-- KEYS: leases reserved holders
-- ARGV: most
-- include: now_ms
local now = now_ms()
local gone = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, most)
local late = redis.call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, most)
local nodes = {}
for i, member in ipairs(late) do
  nodes[i] = redis.call('HGET', holders, member) or ''
end
return {gone, late, nodes}
