-- Remove a member, unless its session has a newer owner, and all wishes of it and about it. Without members the room ends.
-- Returns why not, or the room.
-- KEYS: room members wishes room_transcript room_transcript_order
-- ARGV: session epoch
-- include: read_member tell_room
local _, _, _, holder = read_member(room, members, session)
local fenced = holder and tonumber(holder) > tonumber(epoch)
if fenced or redis.call('EXISTS', room) == 0 or redis.call('HDEL', members, session) == 0 then
  return 'ROOM_NOT_FOUND'
end
for _, wish in ipairs(redis.call('HKEYS', wishes)) do
  local whose, about = string.match(wish, '^(%S+) (%S+)$')
  if whose == session or about == session then
    redis.call('HDEL', wishes, wish)
  end
end
redis.call('HINCRBY', room, 'version', 1)
local told = tell_room(room, members, wishes, '')
if redis.call('EXISTS', members) == 0 then
  redis.call('DEL', room, wishes, room_transcript, room_transcript_order)
  told[2] = 0
end
return told
