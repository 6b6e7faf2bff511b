-- Give a slot back. Once: a second release, or one after the node registered anew, changes no load.
-- A node that was full is told to every snapshot: somebody may wait for it.
-- Returns 1 or 0, or the shelf the node stands on when it is not the one that was named.
-- KEYS: nodes aside reserved changes version shelf
-- ARGV: id epoch member shelf_name
-- include: note_change put read_record jobs_of turn
local lease, max, _, current, standing, _, door = read_record(redis.call('HGET', nodes, id))
if lease and current == epoch and standing ~= shelf_name then
  return standing
end
if redis.call('ZREM', reserved, member) == 0 then
  return 0
end
if lease and current == epoch then
  local jobs = math.max(0, jobs_of(shelf, aside, id) - 1)
  if put(shelf, aside, id, jobs, door == 'open' and jobs < tonumber(max), turn()) then
    note_change(version, changes, id)
  end
end
return 1
