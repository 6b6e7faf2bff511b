-- Advance the current attempt of a job to a state; 1 when it is at or past it, 0 when the step is not legal or the session has a newer owner.
-- KEYS: session ended
-- ARGV: owner epoch job attempt state
-- include: rank holds
local mine, _, record = holds(session, owner, epoch, job)
if not mine then
  return 0
end
if not record then
  return redis.call('EXISTS', ended)
end
local before, current, rest = string.match(record, '^(%u+) (%d+)(.*)$')
if current ~= attempt then
  return 0
end
if rank(before) < rank(state) then
  redis.call('HSET', session, job, state .. ' ' .. current .. rest)
end
return 1
