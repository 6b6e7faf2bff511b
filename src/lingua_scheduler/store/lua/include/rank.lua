-- The order of a job's states.
local function rank(state)
  local ranks = {CREATED = 0, DISPATCHED = 1, ACCEPTED = 2, RUNNING = 3, FINISHED = 4, RELEASED = 5}
  return ranks[state]
end
