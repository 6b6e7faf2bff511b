-- Give a room to who knows a version of it, or none (0).
-- KEYS: room members wishes room_transcript room_transcript_order
-- ARGV: since
-- include: tell_room
if redis.call('EXISTS', room) == 0 then
  return 'ROOM_NOT_FOUND'
end
return tell_room(room, members, wishes, since)
