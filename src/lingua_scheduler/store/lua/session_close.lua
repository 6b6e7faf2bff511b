-- Remove a session with everything that belongs to it, unless a newer epoch owns it; its transcript stays for keep_ms.
-- KEYS: transcript transcript_order session rest...
-- ARGV: epoch keep_ms
local current = tonumber(redis.call('HGET', session, 'epoch'))
if current and current > tonumber(epoch) then
  return 0
end
redis.call('PEXPIRE', transcript, keep_ms)
redis.call('PEXPIRE', transcript_order, keep_ms)
for first = 3, #KEYS, 1000 do
  redis.call('UNLINK', unpack(KEYS, first, math.min(first + 999, #KEYS)))
end
return 1
