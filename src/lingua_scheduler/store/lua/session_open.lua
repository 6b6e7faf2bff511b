-- Write a session and its owner; returns its epoch, or nil when a newer owner, or another one of that epoch, has it.
-- KEYS: session
-- ARGV: owner epoch ttl_ms next_index last_seq fields...
-- include: holds raise
-- durable: promise 1
if not holds(session, owner, epoch, 'whole') then
  return false
end
redis.call('HSET', session, 'owner', owner, 'epoch', epoch, 'whole', 1, unpack(fields))
raise(session, 'next_index', next_index)
raise(session, 'last_seq', last_seq)
redis.call('PEXPIRE', session, ttl_ms)
return tonumber(epoch)
