-- Make a key known: 1, or 0 when its id is taken. Its line is created, expires, revoked (in ms, 0 is never), facts.
-- KEYS: auth_keys auth_version
-- ARGV: id ttl_ms about keep_ms
-- include: now_ms drop_over note_version
-- durable: a key that was handed out counts
local now, ttl = now_ms(), tonumber(ttl_ms)
drop_over(auth_keys, now, keep_ms)
local line = string.format('%.0f %.0f 0 ', now, ttl > 0 and now + ttl or 0) .. about
if redis.call('HSETNX', auth_keys, id, line) == 0 then
  return 0
end
note_version(auth_version)
return 1
