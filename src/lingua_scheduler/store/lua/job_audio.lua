-- Give a job's audio to the holder of an attempt; nil when that attempt is not current, the job has ended, or there is none.
-- KEYS: job audio
-- ARGV: attempt
local known = redis.call('HMGET', job, 'state', 'attempt')
if not known[1] or known[1] == 'FINISHED' or known[1] == 'RELEASED' or known[2] ~= attempt then
  return false
end
return redis.call('GET', audio)
