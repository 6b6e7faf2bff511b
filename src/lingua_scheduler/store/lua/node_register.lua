-- Write a node with its owner and lease, empty-handed: reservations of an older epoch do not count any more.
-- Returns 1, or 0 when a newer epoch is there already.
-- KEYS: node load held leases changes version
-- ARGV: id epoch owner lease_ms max extra closed types facts about
-- include: now_ms shelve note_change write_node
local current = tonumber(redis.call('HGET', node, 'epoch') or 0)
if current > tonumber(epoch) then
  return 0
end
redis.call('DEL', node)
write_node(node, leases, id, {
  'epoch', epoch, 'owner', owner, 'max', max, 'extra', extra, 'closed', closed,
  'types', types, 'facts', facts, 'about', about, 'last', '0',
}, tonumber(lease_ms))
redis.call('HSET', held, id, 0)
shelve(load, held, node, id)
note_change(version, changes, id)
return 1
