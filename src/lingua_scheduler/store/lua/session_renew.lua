-- Extend the life of an owned session and of what belongs to it; 'held', 'gone', or 'taken' by somebody else.
-- A record that only a job has written, after Redis had lost it, is not the whole one: it is gone, too.
-- KEYS: session claims open_jobs results transcript transcript_order
-- ARGV: owner epoch ttl_ms keep_ms
-- include: holds
if not tonumber(redis.call('HGET', session, 'epoch')) then
  return 'gone'
end
if not holds(session, owner, epoch) then
  return 'taken'
end
if not redis.call('HGET', session, 'whole') then
  return 'gone'
end
for _, key in ipairs({session, claims, open_jobs, results}) do
  redis.call('PEXPIRE', key, ttl_ms)
end
for _, key in ipairs({transcript, transcript_order}) do
  redis.call('PEXPIRE', key, ttl_ms + keep_ms)
end
return 'held'
