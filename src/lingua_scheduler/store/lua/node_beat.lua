-- Renew a node's lease with fresh facts. What it runs beyond our reservations is foreign load; with running = ''
-- it has not said anything new about that.
-- Returns 'renewed', 'gone' when the lease had ended, 'replaced' when another epoch is there, or the shelf the node
-- must be taken from (`before`).
-- KEYS: node nodes aside leases changes version shelf before
-- ARGV: id epoch lease_ms max running door shelf_name before_name facts about
-- include: now_ms note_change put read_record
local known = redis.call('HMGET', node, 'epoch', 'facts')
local lease, _, owner, _, standing, foreign = read_record(redis.call('HGET', nodes, id))
if not known[1] or not lease then
  return 'gone'
end
if known[1] ~= epoch then
  return 'replaced'
end
if standing ~= before_name then
  return standing
end
local score = redis.call('ZSCORE', before, id)
local waits = not score and redis.call('ZSCORE', aside, id)
local jobs = score and math.floor(score / 1000000000000) or tonumber(waits or 0)
local held = math.max(0, jobs - foreign)
local extra = running == '' and tonumber(foreign) or math.max(0, running - held)
local now = now_ms()
redis.call('HSET', node, 'facts', facts, 'about', about)
redis.call('PEXPIRE', node, lease_ms)
redis.call('ZADD', leases, now + lease_ms, id)
redis.call('HSET', nodes, id, table.concat({now + lease_ms, max, owner, epoch, shelf_name, extra, door}, ' '))
local open = door == 'open' and held + extra < tonumber(max)
local in_place = open and score and before == shelf or not open and waits
local chosen = false
if not in_place or held + extra ~= jobs then
  if before ~= shelf then
    redis.call('ZREM', before, id)
  end
  chosen = put(shelf, aside, id, held + extra, open, score and before == shelf and score % 1000000000000 or 0)
end
if known[2] ~= facts or chosen and not score then
  note_change(version, changes, id)
end
return 'renewed'
