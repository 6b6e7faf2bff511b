-- Tell what a room is: version, ms until it ends, last speech; unless that version is known, also id, members and wishes.
local function tell_room(room, members, wishes, since)
  local known = redis.call('HMGET', room, 'version', 'spoken_ms', 'id')
  local told = {known[1], redis.call('PTTL', room), known[2]}
  if known[1] ~= since then
    told[4], told[5], told[6] = known[3], redis.call('HGETALL', members), redis.call('HGETALL', wishes)
  end
  return told
end
