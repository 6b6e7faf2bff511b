-- Write a session and its owner; returns its epoch, which is a new one unless the owner writes it again.
-- KEYS: session
-- ARGV: owner ttl_ms fields...
local known = redis.call('HMGET', session, 'owner', 'epoch')
local epoch = known[2]
if known[1] ~= owner or not epoch then
  epoch = redis.call('HINCRBY', session, 'epoch', 1)
end
redis.call('HSET', session, 'owner', owner, unpack(fields))
redis.call('PEXPIRE', session, ttl_ms)
return tonumber(epoch)
