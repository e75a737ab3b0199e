package shopping

// What tests outside the package use of it.
type Floor = shopFloor

var KitOver = kitOver
