-- Read a room's line about a member: number, time of joining, owner, epoch, mode, language, name. Nil: there is none.
local function read_member(room, members, session)
  local line = redis.call('EXISTS', room) == 1 and redis.call('HGET', members, session)
  return string.match(line or '', '^(%d+) (%d+) (%S+) (%d+) (%l+) (%S+) (.*)$')
end
