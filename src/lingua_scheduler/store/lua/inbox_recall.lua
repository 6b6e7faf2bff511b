-- Hand out again what a consumer was handed and has not settled, after an entry.
-- Returns the present in ms, the last entry looked at ('' when there are no more), letters, and how many were deleted.
-- KEYS: inbox
-- ARGV: group consumer count after
-- include: now_ms handed
local reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', inbox, after)
local entries = reply and reply[1][2] or {}
local letters, vanished = handed(inbox, group, entries)
return {now_ms(), #entries > 0 and entries[#entries][1] or '', letters, vanished}
