-- Let a room live on from now: all that belongs to it ends together.
-- include: now_ms
local function prolong(room, ttl_ms)
  local now = now_ms()
  redis.call('HSET', room, 'spoken_ms', now)
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIREAT', key, now + ttl_ms)
  end
end
