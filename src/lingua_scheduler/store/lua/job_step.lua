-- Advance the current attempt of a job to a state; 1 when it is at or past it, 0 when the step is not legal or the session has a newer owner.
-- KEYS: session job
-- ARGV: owner epoch attempt state
-- include: rank holds
if not holds(session, owner, epoch) then
  return 0
end
local known = redis.call('HMGET', job, 'state', 'attempt')
if not known[1] or known[2] ~= attempt then
  return 0
end
if rank(known[1]) >= rank(state) then
  return 1
end
if state == 'RELEASED' and known[1] ~= 'FINISHED' then
  return 0
end
redis.call('HSET', job, 'state', state)
return 1
