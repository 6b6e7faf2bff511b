-- Write a session and its owner under the next epoch; returns the epoch.
-- KEYS: session
-- ARGV: owner ttl_ms fields...
local epoch = redis.call('HINCRBY', session, 'epoch', 1)
redis.call('HSET', session, 'owner', owner, unpack(fields))
redis.call('PEXPIRE', session, ttl_ms)
return epoch
