-- Remove a session with everything that belongs to it, unless a newer epoch owns it.
-- KEYS: session claims open_jobs results rest...
-- ARGV: epoch
local current = tonumber(redis.call('HGET', session, 'epoch'))
if current and current > tonumber(epoch) then
  return 0
end
for first = 1, #KEYS, 1000 do
  redis.call('UNLINK', unpack(KEYS, first, math.min(first + 999, #KEYS)))
end
return 1
