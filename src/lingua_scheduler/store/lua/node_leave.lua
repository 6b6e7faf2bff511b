-- Remove a node. With epoch '' only if its lease is over; otherwise unless a newer epoch is there.
-- Returns 1 or 0, or the shelf the node stands on when it is not the one that was named.
-- KEYS: node nodes aside leases changes version shelf
-- ARGV: id epoch shelf_name
-- include: now_ms note_change read_record
local lease, _, _, current, standing = read_record(redis.call('HGET', nodes, id))
if not lease then
  redis.call('HDEL', nodes, id)
  redis.call('ZREM', leases, id)
  redis.call('ZREM', aside, id)
  return 0
end
if epoch == '' and tonumber(lease) > now_ms() or epoch ~= '' and tonumber(current) > tonumber(epoch) then
  return 0
end
if standing ~= shelf_name then
  return standing
end
redis.call('DEL', node)
redis.call('HDEL', nodes, id)
redis.call('ZREM', leases, id)
redis.call('ZREM', shelf, id)
redis.call('ZREM', aside, id)
note_change(version, changes, id)
return 1
