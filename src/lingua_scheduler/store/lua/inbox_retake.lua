-- Hand out again what anybody was handed so long ago and has not settled, from a cursor on.
-- Returns the present in ms, the next cursor ('0-0' when there is no more), letters, and how many were deleted.
-- KEYS: inbox
-- ARGV: group consumer idle_ms cursor count
-- include: now_ms handed
local reply = redis.call('XAUTOCLAIM', inbox, group, consumer, idle_ms, cursor, 'COUNT', count)
local letters, vanished = handed(inbox, group, reply[2])
return {now_ms(), reply[1], letters, vanished + #reply[3]}
