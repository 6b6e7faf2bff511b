-- End a job by its current attempt's outcome and drop its audio.
-- Returns 'accepted', 'stale' (another attempt is current), 'done' (it had ended) or 'unknown'.
-- KEYS: job audio
-- ARGV: attempt outcome keep_ms
local known = redis.call('HMGET', job, 'state', 'attempt')
if not known[1] then
  return 'unknown'
end
if known[1] == 'FINISHED' or known[1] == 'RELEASED' then
  return 'done'
end
if known[2] ~= attempt then
  return 'stale'
end
redis.call('HSET', job, 'state', 'FINISHED', 'outcome', outcome)
redis.call('PEXPIRE', job, keep_ms)
redis.call('UNLINK', audio)
return 'accepted'
