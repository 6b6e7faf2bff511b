-- Hand out the next letters of a dead instance to its adopter, pending ones first; the adoption is extended.
-- Returns the present in ms, '', letters, and how many were deleted; none when it lives or somebody else adopts it.
-- KEYS: presence inbox adopter
-- ARGV: group consumer count ttl_ms
-- include: now_ms open_inbox handed
if redis.call('EXISTS', presence) == 1 or redis.call('GET', adopter) ~= consumer then
  return {now_ms(), '', {}, 0}
end
redis.call('PEXPIRE', adopter, ttl_ms)
open_inbox(inbox, group)
local letters, vanished, some, reply = {}, 0, 0, {'0-0'}
repeat
  reply = redis.call('XAUTOCLAIM', inbox, group, consumer, 0, reply[1], 'COUNT', count)
  letters, some = handed(inbox, group, reply[2])
  vanished = vanished + some + #reply[3]
until #letters > 0 or reply[1] == '0-0'
if #letters == 0 then
  reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', inbox, '>')
  letters = handed(inbox, group, reply and reply[1][2] or {})
end
return {now_ms(), '', letters, vanished}
