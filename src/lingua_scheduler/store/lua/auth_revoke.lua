-- Let a key count no more: 1, or 0 when there is none of this id. What was revoked before keeps its time.
-- KEYS: auth_keys auth_version
-- ARGV: id keep_ms
-- include: now_ms drop_over note_version
-- durable: a key that was revoked never counts again
local line = redis.call('HGET', auth_keys, id)
local before, revoked, about = (line or ''):match('^(%d+ %d+ )(%d+)( .*)$')
if not before then
  return 0
end
local now = now_ms()
if revoked == '0' then
  redis.call('HSET', auth_keys, id, before .. string.format('%.0f', now) .. about)
end
drop_over(auth_keys, now, keep_ms)
note_version(auth_version)
return 1
