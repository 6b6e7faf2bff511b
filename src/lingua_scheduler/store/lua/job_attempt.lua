-- Make an attempt the current one, and its node the session's if speech goes on there.
-- 1 when it is (also when asked again), 0 when the job ended or moved on, or the session has a newer owner.
-- KEYS: session job
-- ARGV: owner epoch attempt node reservation affinity affinity_ttl_ms
-- include: now_ms remember holds
-- durable: promise 3
if not holds(session, owner, epoch) then
  return 0
end
local known = redis.call('HMGET', job, 'state', 'attempt', 'node')
if not known[1] or known[1] == 'FINISHED' or known[1] == 'RELEASED' then
  return 0
end
if known[2] == attempt and known[3] == node then
  return 1
end
if tonumber(known[2]) ~= tonumber(attempt) - 1 then
  return 0
end
redis.call('HSET', job, 'state', 'DISPATCHED', 'attempt', attempt, 'node', node, 'reservation', reservation)
if redis.call('EXISTS', session) == 1 then
  remember(session, affinity, affinity_ttl_ms)
end
return 1
