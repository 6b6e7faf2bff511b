-- Let a room live on from now: all that belongs to it ends together.
-- include: now_ms
local function prolong(room, members, wishes, ttl_ms)
  local now = now_ms()
  redis.call('HSET', room, 'spoken_ms', now)
  for _, key in ipairs({room, members, wishes}) do
    redis.call('PEXPIREAT', key, now + ttl_ms)
  end
end
