package ledger

import "errors"

// ErrDiscarded says that a ledger does not keep the state of a block any more.
var ErrDiscarded = errors.New("state of the block is discarded")

// Error is a refusal by a ledger's rules. Name is the chain's name of it, so
// that logs and other people's tools say the same everywhere.
type Error struct {
	Name    string
	Message string // what is wrong, with the numbers
}

func (e *Error) Error() string { return e.Message + " (" + e.Name + ")" }

// Is makes errors.Is compare names, so that a refusal with its own numbers is
// still its sentinel.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Name == e.Name
}

// With returns e with another message.
func (e *Error) With(message string) *Error { return &Error{Name: e.Name, Message: message} }

// The refusals that agon knows, by the chain's names.
var (
	ErrSubnetNotExists        = &Error{"SubnetNotExists", "subnet does not exist"}
	ErrRootWeights            = &Error{"CanNotSetRootNetworkWeights", "the root network takes no weights"}
	ErrRootRegistration       = &Error{"RegistrationNotPermittedOnRootSubnet", "the root network takes no registrations"}
	ErrRegistrationDisabled   = &Error{"SubNetRegistrationDisabled", "registration is closed"}
	ErrAlreadyRegistered      = &Error{"HotKeyAlreadyRegisteredInSubNet", "hotkey is registered already"}
	ErrNonAssociatedColdkey   = &Error{"NonAssociatedColdKey", "hotkey belongs to another coldkey"}
	ErrSubnetFull             = &Error{"NoNeuronIdAvailable", "no uid is free"}
	ErrNotRegistered          = &Error{"HotKeyNotRegisteredInSubNet", "hotkey is not registered"}
	ErrInputLengths           = &Error{"InputLengthsUnequal", "lists of a batch differ in length"}
	ErrUnequalLengths         = &Error{"WeightVecNotEqualSize", "uids and values differ in length"}
	ErrTooManyUIDs            = &Error{"UidsLengthExceedUidsInSubNet", "more uids than the subnet has"}
	ErrNotEnoughStake         = &Error{"NotEnoughStakeToSetWeights", "stake is below the threshold"}
	ErrVersionKey             = &Error{"IncorrectWeightVersionKey", "version key is too low"}
	ErrCommitRevealEnabled    = &Error{"CommitRevealEnabled", "weights are committed and revealed here"}
	ErrSettingWeightsTooFast  = &Error{"SettingWeightsTooFast", "weights were set too recently"}
	ErrNoPermit               = &Error{"NeuronNoValidatorPermit", "hotkey has no validator permit"}
	ErrDuplicateUIDs          = &Error{"DuplicateUids", "a uid is given twice"}
	ErrInvalidUID             = &Error{"UidVecContainInvalidOne", "a uid does not exist"}
	ErrTooFewWeights          = &Error{"WeightVecLengthIsLow", "too few weights"}
	ErrMaxWeight              = &Error{"MaxWeightExceeded", "a weight is over the limit"}
	ErrAccountMayNotCommit    = &Error{"AccountNotAllowedCommit", "only registered hotkeys may commit"}
	ErrTooManyFields          = &Error{"TooManyFieldsInCommitmentInfo", "too many fields in a commitment"}
	ErrCommitmentSpace        = &Error{"SpaceLimitExceeded", "commitment space of the epoch is used up"}
	ErrCommitRevealDisabled   = &Error{"CommitRevealDisabled", "weights are set directly here"}
	ErrCommittingTooFast      = &Error{"CommittingWeightsTooFast", "weights were committed too recently"}
	ErrTooManyCommits         = &Error{"TooManyUnrevealedCommits", "too many weight commits wait to be revealed"}
	ErrNoWeightsCommit        = &Error{"NoWeightsCommitFound", "no weight commit waits to be revealed"}
	ErrRevealMismatch         = &Error{"InvalidRevealCommitHashNotMatch", "the weights are not those of a commit"}
	ErrExpiredCommit          = &Error{"ExpiredWeightCommit", "the epoch to reveal the commit in is over"}
	ErrRevealTooEarly         = &Error{"RevealTooEarly", "the epoch to reveal the commit in has not begun"}
	ErrStakeUnavailable       = &Error{"StakeUnavailable", "the stake is collateral"}
	ErrCollateralShare        = &Error{"CollateralLockShareTooHigh", "more of a registration's price is locked than the chain allows"}
	ErrCollateralDrain        = &Error{"CollateralDrainRatioOutOfBounds", "collateral is set free too quickly, or never"}
	ErrNotEnoughBalance       = &Error{"NotEnoughBalanceToStake", "the coldkey's balance is too low"}
	ErrNotEnoughStakeLeft     = &Error{"NotEnoughStakeToWithdraw", "the hotkey's stake is too low"}
	ErrBadOrigin              = &Error{"BadOrigin", "the signer may not do this"}
	ErrCommitRevealVersion    = &Error{"IncorrectCommitRevealVersion", "layout of timelocked weights is another one"}
	ErrInvalidRevealRound     = &Error{"InvalidRevealRound", "the drand round is over"}
	ErrInvalidIP              = &Error{"InvalidIpAddress", "address is not one that others reach"}
	ErrInvalidIPType          = &Error{"InvalidIpType", "an address is of type 4 or 6"}
	ErrInvalidPort            = &Error{"InvalidPort", "port 0 is not a port"}
	ErrMechanismNotExists     = &Error{"MechanismDoesNotExist", "subnet has no such mechanism"}
	ErrPriceLimit             = &Error{"RegistrationPriceLimitExceeded", "a registration costs more than the limit"}
	ErrSlippage               = &Error{"SlippageTooHigh", "the price is over the limit"}
	ErrFundsUnavailable       = &Error{"FundsUnavailable", "the account's balance is too low"}
	ErrNotExpendable          = &Error{"NotExpendable", "the account has to keep the existential deposit"}
	ErrBelowMinimum           = &Error{"BelowMinimum", "a new account needs the existential deposit"}
	ErrNoHotkey               = &Error{"HotKeyAccountNotExists", "hotkey was never registered"}
	ErrTakeTooHigh            = &Error{"DelegateTakeTooHigh", "the take is over the most"}
	ErrTakeTooLow             = &Error{"DelegateTakeTooLow", "the take does not move in that direction"}
	ErrInvalidValue           = &Error{"InvalidValue", "the value does not fit"}
	ErrMaxUIDsTooLow          = &Error{"MaxAllowedUIdsLessThanCurrentUIds", "more uids are taken"}
	ErrAmountTooLow           = &Error{"AmountTooLow", "the amount is below the least that is staked"}
	ErrLiquidity              = &Error{"InsufficientLiquidity", "the pool is too small for that"}
	ErrReservesTooLow         = &Error{"ReservesTooLow", "a side of the pool is nearly empty"}
	ErrPriceExceeded          = &Error{"PriceLimitExceeded", "the price is past the limit already"}
	ErrSwapInputTooLarge      = &Error{"SwapInputTooLarge", "the amount is over a thousand times the pool's"}
	ErrSameSubnet             = &Error{"SameNetuid", "stake moves from a place to itself"}
	ErrBurnOnRoot             = &Error{"CannotBurnOrRecycleOnRootSubnet", "the root network has no alpha"}
	ErrTooManyChildren        = &Error{"TooManyChildren", "a hotkey has at most five children on a subnet"}
	ErrInvalidChild           = &Error{"InvalidChild", "a hotkey is not its own child"}
	ErrDuplicateChild         = &Error{"DuplicateChild", "a child is named twice"}
	ErrProportionOverflow     = &Error{"ProportionOverflow", "the children's proportions are more than the whole"}
	ErrChildParent            = &Error{"ChildParentInconsistency", "a child is a parent of the hotkey already"}
	ErrChildStake             = &Error{"NotEnoughStakeToSetChildkeys", "the hotkey's stake is below the threshold"}
	ErrTooFast                = &Error{"TxRateLimitExceeded", "it was changed too recently"}
	ErrChildTake              = &Error{"InvalidChildkeyTake", "the take is over the most"}
	ErrChildTakeTooFast       = &Error{"TxChildkeyTakeRateLimitExceeded", "the take was changed too recently to rise"}
	ErrInvalidSubnets         = &Error{"InvalidSubnetNumber", "a claim names one to five subnets"}
	ErrCallFiltered           = &Error{"CallFiltered", "the proxy may not make this call"}
	ErrInsufficientBalance    = &Error{"InsufficientBalance", "the account's balance does not cover the deposit"}
	ErrNotProxy               = &Error{"NotProxy", "the signer is not such a proxy of the account"}
	ErrNoSelfProxy            = &Error{"NoSelfProxy", "an account is not its own proxy"}
	ErrNoPermission           = &Error{"NoPermission", "only the account itself may do this"}
	ErrProxyDuplicate         = &Error{"Duplicate", "the account has this proxy already"}
	ErrProxyNotFound          = &Error{"NotFound", "there is no such proxy or announcement"}
	ErrProxyTooMany           = &Error{"TooMany", "there are too many proxies or announcements"}
	ErrProxyPermission        = &Error{"NoPermission", "the proxy may not change that"}
	ErrUnannounced            = &Error{"Unannounced", "the call has to be announced first, for as long as the proxy's delay"}
	ErrCommitmentFieldInvalid = &Error{"InvalidCommitmentField", "field does not fit its form"}
)
