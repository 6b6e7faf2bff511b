-- End a job by its current attempt's outcome, log what its client is told (a name and a message, or no name), and drop its audio.
-- Returns 'accepted', 'stale' (another attempt is current), 'fenced' (the session has a newer owner), 'done' (it had ended) or 'unknown'.
-- KEYS: session open_jobs results job audio
-- ARGV: owner epoch session_ttl_ms job_id attempt outcome keep_ms name message forget...
-- include: holds
-- durable: promises 1 and 3
if not holds(session, owner, epoch) then
  return 'fenced'
end
if #forget > 0 then
  redis.call('HDEL', results, unpack(forget))
end
local known = redis.call('HMGET', job, 'state', 'attempt')
if known[1] == 'FINISHED' or known[1] == 'RELEASED' then
  return 'done'
end
if known[1] and known[2] ~= attempt then
  return 'stale'
end
redis.call('HDEL', open_jobs, job_id)
if name ~= '' and (known[1] or redis.call('EXISTS', session) == 1) then
  redis.call('HSET', results, name, message)
  redis.call('PEXPIRE', results, session_ttl_ms)
end
if not known[1] then
  return 'unknown'
end
redis.call('HSET', job, 'state', 'FINISHED', 'outcome', outcome)
redis.call('PEXPIRE', job, keep_ms)
redis.call('UNLINK', audio)
return 'accepted'
