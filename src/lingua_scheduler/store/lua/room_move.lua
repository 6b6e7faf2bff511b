-- Tell who holds a member's session, unless somebody newer does. Returns why not, or the room.
-- KEYS: room members wishes room_transcript room_transcript_order
-- ARGV: session owner epoch
-- include: read_member tell_room
local number, joined, owner_before, holder, mode, lang, name = read_member(room, members, session)
if not number or tonumber(holder) > tonumber(epoch) then
  return 'ROOM_NOT_FOUND'
end
if owner_before ~= owner or holder ~= epoch then
  redis.call('HSET', members, session, table.concat({number, joined, owner, epoch, mode, lang, name}, ' '))
  redis.call('HINCRBY', room, 'version', 1)
end
return tell_room(room, members, wishes, '')
