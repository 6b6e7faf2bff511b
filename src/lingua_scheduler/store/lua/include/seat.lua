-- Give a newcomer the next place in a room.
-- include: now_ms
local function seat(room, members, session, card)
  local number = redis.call('HINCRBY', room, 'joined', 1)
  redis.call('HSET', members, session, number .. ' ' .. string.format('%.0f', now_ms()) .. ' ' .. card)
end
