-- Extend an owned session's life; 0 when it is gone or somebody else's.
-- KEYS: session claims
-- ARGV: owner ttl_ms
if redis.call('HGET', session, 'owner') ~= owner then
  return 0
end
redis.call('PEXPIRE', session, ttl_ms)
redis.call('PEXPIRE', claims, ttl_ms)
return 1
