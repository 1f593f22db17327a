-- What callers have taken, and who waits, kept in one key: the book-keeping of `state.py`, run by Redis as a whole.
-- It is written twice because a poll must be one atomic round trip: read, decided by a caller and written back only if
-- nobody else was faster, a state that many machines share would be read again and again. `test_state.py` runs both on
-- the same random operations and compares every reply; the numbers come from `state.py` with the rules.
-- KEYS[1]: the state. ARGV[1]: {rules, caller, ops, epoch, bound, now, grace, counts}, as JSON. Returns a reply, as JSON.
-- Seconds without any request after which a caller that comes back was not alone in being cut off.
local QUIET = 0.5
local request = cjson.decode(ARGV[1])
local rules, caller = request.rules, request.caller
local KEPT, LEASE, SEEN, EPSILON = rules.kept, rules.lease, rules.seen, rules.epsilon

-- The time of the state: it runs with the server's clock, never backwards, and never further than a caller who has
-- seen the same state knows time to have gone. So a clock that is set does neither empty the counts nor stop them.
local told = redis.call('TIME')
local clock = request.now or (tonumber(told[1]) + tonumber(told[2]) / 1000000)
local held = redis.call('GET', KEYS[1])
local state
local is_lost, gap = false, 0
if held then
  state = cjson.decode(held)
  state.now = tonumber(state.now)
  local passed = math.max(0, clock - tonumber(state.last))
  local now = state.now + passed
  if request.epoch == state.epoch and request.bound then now = math.min(now, request.bound) end
  gap = math.max(0, now - state.now)
  state.now = math.max(state.now, now)
else
  is_lost = request.epoch ~= nil and request.epoch ~= ''
  state = {used = {}, line = {}, kept = {}, seen = {}, hold = 0, caps = {}, bucket = 0, now = 1000,
           epoch = string.format('%.6f', clock)}
  -- Callers that knew an older state tell again what they have taken: nothing is let through until they had the time.
  if is_lost then state.hold = state.now + request.grace end
end
state.last = string.format('%.6f', clock)
local now = state.now

local function cost(quota, tokens) if quota.kind == 'requests' then return 1 end return tokens end
local function part_of(quota) return math.floor(now / quota.part) end
local function name(part) return string.format('%d', part) end
local function counts(key)
  if not state.used[key] then state.used[key] = {} end
  return state.used[key]
end

local function leave(who)
  local line = {}
  for _, waiter in ipairs(state.line) do if waiter.caller ~= who then line[#line + 1] = waiter end end
  state.line = line
  state.kept[who] = nil
end

local function forget()
  for _, quota in ipairs(rules.quotas) do
    local oldest, parts = part_of(quota) - KEPT, counts(quota.key)
    for part in pairs(parts) do if tonumber(part) < oldest then parts[part] = nil end end
  end
  local gone = {}
  for _, waiter in ipairs(state.line) do
    if waiter.caller ~= caller and now - waiter.at > LEASE then gone[#gone + 1] = waiter.caller end
  end
  for who in pairs(state.kept) do
    if who ~= caller and now - (state.seen[who] or -1e9) > LEASE then gone[#gone + 1] = who end
  end
  for _, who in ipairs(gone) do leave(who) end
  for who, at in pairs(state.seen) do if now - at > SEEN then state.seen[who] = nil end end
  if rules.rate > 0 then
    local since = 0
    if state.bucket_at then since = math.max(0, now - state.bucket_at) end
    state.bucket = math.min(rules.size, state.bucket + since * rules.rate)
    state.bucket_at = now
  end
end

local function quota_wait(quota, tokens)
  local parts, over = counts(quota.key), cost(quota, tokens) - quota.limit
  local order = {}
  for part, amount in pairs(parts) do over = over + amount; order[#order + 1] = tonumber(part) end
  for _, some in pairs(state.kept) do for _, one in ipairs(some) do over = over + cost(quota, one) end end
  if over <= EPSILON then return 0 end
  table.sort(order)
  for _, part in ipairs(order) do
    over = over - parts[name(part)]
    if over <= EPSILON then return math.max(EPSILON, (part + KEPT + 1) * quota.part - now) end
  end
  return quota.part
end

local function cap_wait(cap, amount)
  local part = 1
  if cap.reset > 0 then part = math.min(1, math.max(0, now - cap.at) / cap.reset) end
  local room = cap.remaining + (cap.limit - cap.remaining) * part - cap.taken
  local missing = math.min(amount, cap.limit) - room
  if missing <= EPSILON or now >= cap.at + cap.reset then return 0 end
  local speed, rest = (cap.limit - cap.remaining) / cap.reset, cap.at + cap.reset - now
  if speed > 0 then return math.min(rest, missing / speed) end
  return rest
end

local function wait_for(tokens)
  local wait = math.max(0, state.hold - now)
  for _, quota in ipairs(rules.quotas) do wait = math.max(wait, quota_wait(quota, tokens)) end
  if rules.rate > 0 and state.bucket < 1 - EPSILON then
    wait = math.max(wait, (1 - state.bucket) / rules.rate)
  end
  for kind, cap in pairs(state.caps) do
    local amount = tokens
    if kind == 'requests' then amount = 1 end
    wait = math.max(wait, cap_wait(cap, amount))
  end
  return wait
end

local function draw(tokens)
  if rules.rate > 0 then state.bucket = state.bucket - 1 end
  for kind, cap in pairs(state.caps) do
    if kind == 'requests' then cap.taken = cap.taken + 1 else cap.taken = cap.taken + tokens end
  end
end

local reply = {taken = {}, wait = 0}

local function count(tokens)
  local taken = {}
  for _, quota in ipairs(rules.quotas) do
    local part, parts = part_of(quota), counts(quota.key)
    taken[quota.key] = part
    parts[name(part)] = (parts[name(part)] or 0) + cost(quota, tokens)
  end
  reply.taken[#reply.taken + 1] = {tokens, taken}
end

local function serve()
  while #state.line > 0 do
    local waiter = state.line[1]
    local tokens = waiter.demands[1]
    if wait_for(tokens) > 0 then return end
    table.remove(waiter.demands, 1)
    if #waiter.demands == 0 then table.remove(state.line, 1) end
    if waiter.caller == caller then
      count(tokens)
    else
      local kept = state.kept[waiter.caller] or {}
      kept[#kept + 1] = tokens
      state.kept[waiter.caller] = kept
    end
    draw(tokens)
  end
end

local ops = {}

function ops.take(op)
  forget()
  state.seen[caller] = now
  local kept = state.kept[caller] or {}
  state.kept[caller] = nil
  for index = 1, math.min(#kept, #op.demands) do count(kept[index]) end
  local left = {}
  for index = #reply.taken + 1, #op.demands do left[#left + 1] = op.demands[index] end
  local own
  for _, waiter in ipairs(state.line) do if waiter.caller == caller then own = waiter end end
  if own and (#reply.taken > 0 or #left == 0 or not op.waits) then
    local line = {}
    for _, waiter in ipairs(state.line) do if waiter ~= own then line[#line + 1] = waiter end end
    state.line, own = line, nil
  end
  if not op.waits then
    for _, tokens in ipairs(left) do
      if #state.line > 0 or wait_for(tokens) > 0 then break end
      count(tokens)
      draw(tokens)
    end
  elseif #left > 0 then
    if not own then
      own = {caller = caller}
      state.line[#state.line + 1] = own
    end
    own.demands, own.at = left, now
  end
  serve()
  if #reply.taken == 0 and #state.line > 0 then reply.wait = wait_for(state.line[1].demands[1]) end
end

function ops.settle(op)
  for _, quota in ipairs(rules.quotas) do
    local amount = op.change
    if quota.kind == 'requests' then amount = op.unsent and -1 or 0 end
    local part, parts = op.taken[quota.key], counts(quota.key)
    if amount ~= 0 and part then
      local key = name(part)
      if amount > 0 then
        key = name(part_of(quota))
      end
      if amount > 0 or parts[key] then parts[key] = math.max(0, (parts[key] or 0) + amount) end
    end
  end
end

function ops.learn(op)
  for kind, cap in pairs(op.caps) do
    state.caps[kind] = {limit = cap.limit, remaining = cap.remaining, reset = cap.reset, at = now, taken = 0}
  end
  if op.hold > 0 then state.hold = math.max(state.hold, now + op.hold) end
end

function ops.leave() leave(caller) end

function ops.restore(op)
  -- All were cut off: nothing is let through until the others have told what they took by themselves.
  if gap > QUIET and request.grace > 0 then state.hold = math.max(state.hold, now + request.grace) end
  for _, row in ipairs(op.parts) do
    for _, quota in ipairs(rules.quotas) do
      if quota.key == row[1] and row[2] <= KEPT then
        local key, parts = name(part_of(quota) - row[2]), counts(quota.key)
        parts[key] = (parts[key] or 0) + row[3]
      end
    end
  end
end

for _, op in ipairs(request.ops) do
  -- What was counted in another state is not there: its caller tells it again, settled, by `restore`.
  if op.op ~= 'settle' or op.epoch == state.epoch then ops[op.op](op) end
end

if request.counts then  -- what all have taken, by its age: for a caller that may have to go on by itself
  reply.used = {}
  for _, quota in ipairs(rules.quotas) do
    for part, amount in pairs(counts(quota.key)) do
      if amount > 0 then
        reply.used[#reply.used + 1] = {quota.key, part_of(quota) - tonumber(part), amount}
      end
    end
  end
end
reply.callers = 0
for _ in pairs(state.seen) do reply.callers = reply.callers + 1 end
-- As text: cjson writes numbers with fourteen digits.
state.now = string.format('%.17g', now)
reply.epoch, reply.now = state.epoch, state.now
redis.call('SET', KEYS[1], cjson.encode(state), 'PX', request.ttl)
return cjson.encode(reply)
