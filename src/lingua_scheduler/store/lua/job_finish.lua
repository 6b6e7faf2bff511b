-- End a job by its current attempt's outcome, log what its client is told (a name and a message, or no name), and drop its audio.
-- Returns 'accepted', 'stale' (another attempt is current), 'fenced' (the session has a newer owner), 'done' (it had ended) or 'unknown'.
-- KEYS: session ended audio
-- ARGV: owner epoch job attempt state keep_ms name message forget...
-- include: holds
-- durable: promises 1 and 3
local mine, there, record = holds(session, owner, epoch, job)
if not mine then
  return 'fenced'
end
local current = string.match(record or '', '^%u+ (%d+) ')
local done = not current and redis.call('EXISTS', ended) == 1
if done or current and current ~= attempt then
  if #forget > 0 then
    redis.call('HDEL', session, unpack(forget))
  end
  return done and 'done' or 'stale'
end
redis.call('HDEL', session, job, unpack(forget))
if name ~= '' and there then
  redis.call('HSET', session, name, message)
end
redis.call('UNLINK', audio)
if not current then
  return 'unknown'
end
redis.call('SET', ended, state, 'PX', keep_ms)
return 'accepted'
