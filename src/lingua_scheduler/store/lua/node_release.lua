-- Give a slot back. Once: a second release, or one after the node registered anew, changes no load.
-- A node that was full is told to every snapshot: somebody may wait for it.
-- Returns 1 or 0, or the shelf the node stands on when it is not the one that was named.
-- KEYS: nodes aside reserved changes version shelf
-- ARGV: id epoch member shelf_name
-- include: note_change put read_record turn
local lease, max, _, current, standing, _, door = read_record(redis.call('HGET', nodes, id))
if lease and current == epoch and standing ~= shelf_name then
  return standing
end
if redis.call('ZREM', reserved, member) == 0 then
  return 0
end
if not lease or current ~= epoch then
  return 1
end
local score = redis.call('ZADD', shelf, 'XX', 'INCR', '-1000000000000', id)
if score then
  if tonumber(score) < 0 then
    redis.call('ZADD', shelf, 0, id)
  end
  return 1
end
local jobs = math.max(0, (redis.call('ZSCORE', aside, id) or 0) - 1)
if put(shelf, aside, id, jobs, door == 'open' and jobs < tonumber(max), turn()) then
  note_change(version, changes, id)
end
return 1
