-- Write a node with its owner and lease, empty-handed: reservations of an older epoch do not count any more.
-- Returns 'written', 'fenced' when a newer epoch is there, 'taken' when an older one lives and takeover is '0', or
-- the shelf the node must be taken from (`before`).
-- KEYS: node nodes aside leases changes version shelf before
-- ARGV: id epoch owner lease_ms max extra door takeover shelf_name before_name facts about
-- include: now_ms note_change put read_record
-- durable: promise 2
local now = now_ms()
local lease, _, _, newest, standing, _, before_door = read_record(redis.call('HGET', nodes, id))
if lease and tonumber(newest) > tonumber(epoch) then
  return 'fenced'
end
if lease and takeover == '0' and tonumber(lease) > now and before_door ~= 'offline' then
  return 'taken'
end
if standing and standing ~= before_name and standing ~= shelf_name then
  return standing
end
redis.call('DEL', node)
redis.call('HSET', node, 'epoch', epoch, 'owner', owner, 'facts', facts, 'about', about)
redis.call('PEXPIRE', node, lease_ms)
redis.call('ZADD', leases, now + lease_ms, id)
redis.call('HSET', nodes, id, table.concat({now + lease_ms, max, owner, epoch, shelf_name, extra, door}, ' '))
redis.call('ZREM', before, id)
put(shelf, aside, id, tonumber(extra), door == 'open' and tonumber(extra) < tonumber(max), 0)
note_change(version, changes, id)
return 'written'
