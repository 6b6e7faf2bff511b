-- Extend the life of an owned session and of its transcript; 'held', 'gone', or 'taken' by somebody else.
-- A record that only a job has written, after Redis had lost it, is not the whole one: it is gone, too.
-- KEYS: session transcript transcript_order
-- ARGV: owner epoch ttl_ms keep_ms
-- include: holds
local mine, there, whole = holds(session, owner, epoch, 'whole')
if not mine then
  return 'taken'
end
if not there or not whole then
  return 'gone'
end
redis.call('PEXPIRE', session, ttl_ms)
redis.call('PEXPIRE', transcript, ttl_ms + keep_ms)
redis.call('PEXPIRE', transcript_order, ttl_ms + keep_ms)
return 'held'
