-- Change what a member said about itself: '=x' makes it x, empty leaves it; a target is somebody whose voice it wants or not.
-- Returns why not, or the room.
-- KEYS: room members wishes room_transcript room_transcript_order
-- ARGV: session mode lang name target receive
-- include: read_member tell_room
local number, joined, owner, epoch, mode_before, lang_before, name_before = read_member(room, members, session)
if not number then
  return 'ROOM_NOT_FOUND'
end
if target ~= '' and (target == session or redis.call('HEXISTS', members, target) == 0) then
  return 'PEER_UNAVAILABLE'
end
local function chosen(wanted, before)
  return wanted == '' and before or string.sub(wanted, 2)
end
local before = redis.call('HGET', members, session)
local line = table.concat({
  number, joined, owner, epoch, chosen(mode, mode_before), chosen(lang, lang_before), chosen(name, name_before)
}, ' ')
local changed = line ~= before
if changed then
  redis.call('HSET', members, session, line)
end
local wish = session .. ' ' .. target
if target ~= '' and redis.call('HGET', wishes, wish) ~= receive then
  redis.call('HSET', wishes, wish, receive)
  redis.call('PEXPIRE', wishes, redis.call('PTTL', room))
  changed = true
end
if changed then
  redis.call('HINCRBY', room, 'version', 1)
end
return tell_room(room, members, wishes, '')
