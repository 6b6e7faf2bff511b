-- Hold an instance's id for one boot: write its presence and open its inbox, unless another boot lives under the id.
-- Returns 1 when it was held and is, 0 when it was not and is, else the other's {boot, lease end in ms} and the present in ms.
-- KEYS: presence inbox
-- ARGV: boot ttl_ms group fields...
-- include: now_ms open_inbox
local now, held = now_ms(), 0
if redis.call('TYPE', presence).ok == 'hash' then
  local known = redis.call('HMGET', presence, 'boot', 'until_ms')
  if known[1] and known[1] ~= boot then
    return {known[1], known[2] or '', now}
  end
  held = known[1] and 1 or 0
end
redis.call('DEL', presence)
redis.call('HSET', presence, 'boot', boot, 'until_ms', now + ttl_ms, unpack(fields))
redis.call('PEXPIRE', presence, ttl_ms)
open_inbox(inbox, group)
return held
