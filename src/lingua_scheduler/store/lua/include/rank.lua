-- The order of the states of a job that has not ended.
local function rank(state)
  local ranks = {CREATED = 0, DISPATCHED = 1, ACCEPTED = 2, RUNNING = 3}
  return ranks[state]
end
