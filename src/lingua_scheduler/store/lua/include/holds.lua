-- Tell whether an owner may write about a session, not when somebody newer has it; whether the session is there; and one field of it.
-- An older record becomes its own; one that is gone stays gone.
local function holds(session, owner, epoch, field)
  local known = redis.call('HMGET', session, 'owner', 'epoch', field)
  local current, mine = tonumber(known[2]), tonumber(epoch)
  if current and current < mine then
    redis.call('HSET', session, 'owner', owner, 'epoch', epoch)
  elseif current and (current > mine or known[1] ~= owner) then
    return false, true
  end
  return true, current ~= nil, known[3]
end
