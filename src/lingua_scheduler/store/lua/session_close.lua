-- Remove a session with everything that belongs to it, unless a newer epoch owns it.
-- KEYS: session rest...
-- ARGV: epoch
local current = redis.call('HGET', session, 'epoch')
if current and current ~= epoch then
  return 0
end
redis.call('UNLINK', session, unpack(rest))
return 1
