-- Make an attempt the current one. 1 when it is (also when asked again), 0 when the job ended or moved on.
-- KEYS: job
-- ARGV: attempt node
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
redis.call('HSET', job, 'state', 'DISPATCHED', 'attempt', attempt, 'node', node)
return 1
