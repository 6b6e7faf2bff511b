-- Renew a node's lease with fresh facts. What it runs beyond our reservations is foreign load.
-- Returns 'renewed', 'gone' when the lease had ended, or 'replaced' when a newer epoch is there.
-- KEYS: node load held leases changes version
-- ARGV: id epoch lease_ms max running closed types facts about
-- include: now_ms shelve note_change write_node
local known = redis.call('HMGET', node, 'epoch', 'facts')
if not known[1] then
  return 'gone'
end
if known[1] ~= epoch then
  return 'replaced'
end
local extra = math.max(0, tonumber(running) - tonumber(redis.call('HGET', held, id) or 0))
write_node(node, leases, id, {
  'max', max, 'extra', extra, 'closed', closed, 'types', types, 'facts', facts, 'about', about,
}, tonumber(lease_ms))
shelve(load, held, node, id)
if known[2] ~= facts then
  note_change(version, changes, id)
end
return 'renewed'
