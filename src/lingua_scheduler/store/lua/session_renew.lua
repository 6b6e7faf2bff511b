-- Extend the life of an owned session and of what belongs to it; 'held', 'gone', or 'taken' by somebody else.
-- KEYS: session claims open_jobs results
-- ARGV: owner epoch ttl_ms
-- include: holds
if not tonumber(redis.call('HGET', session, 'epoch')) then
  return 'gone'
end
if not holds(session, owner, epoch) then
  return 'taken'
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ttl_ms)
end
return 'held'
