-- Remove a node. With epoch '' only if its lease is over; otherwise only if the epoch is still the node's.
-- KEYS: node load held leases changes version
-- ARGV: id epoch
-- include: note_change
local current = redis.call('HGET', node, 'epoch')
if current and current ~= epoch then
  return 0
end
local known = redis.call('ZREM', leases, id)
redis.call('DEL', node)
redis.call('HDEL', load, id)
redis.call('HDEL', held, id)
if known == 1 then
  note_change(version, changes, id)
end
return known
