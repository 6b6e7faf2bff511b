-- Open a room with its first member; nil when the code is taken. The first version is the time in microseconds: whoever
-- remembers an earlier room of this code is never told that nothing has changed.
-- KEYS: room members wishes room_transcript room_transcript_order
-- ARGV: id session card ttl_ms
-- include: seat prolong tell_room
if redis.call('EXISTS', room) == 1 then
  return false
end
redis.call('DEL', members, wishes, room_transcript, room_transcript_order)
local time = redis.call('TIME')
redis.call('HSET', room, 'id', id, 'version', string.format('%.0f', time[1] * 1000000 + time[2]))
seat(room, members, session, card)
prolong(room, ttl_ms)
return tell_room(room, members, wishes, '')
