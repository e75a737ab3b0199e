package catalogue

// The words that generated catalogues are made of. Order matters: the same
// seed gives the same bytes only while these tables stay as they are. Any
// change to them is a new Version.

// languages of titles; the share of a shop's products in its own language is in generate.go.
var languages = []string{"en", "fil", "id", "vi", "th", "zh"}

// attr is a key with the values it may take, in lower case as schema wants.
type attr struct {
	key    string
	values []string
}

// category is a kind of goods.
type category struct {
	path   string
	names  map[string][]string // by language
	attrs  []attr
	sku    []attr // what a buyer chooses
	lo, hi float64
	said   []string // what a buyer may say instead of a name
}

// namesIn are the names in a language, the English ones where it has none.
func (c *category) namesIn(language string) []string {
	if list := c.names[language]; len(list) > 0 {
		return list
	}
	return c.names["en"]
}

var (
	colours   = attr{"color", []string{"black", "white", "red", "navy blue", "pink", "beige", "olive green", "grey", "lavender", "mustard"}}
	sizes     = attr{"size", []string{"s", "m", "l", "xl", "xxl"}}
	plugs     = attr{"plug type", []string{"us plug", "eu plug", "uk plug"}}
	warranty  = attr{"warranty", []string{"no warranty", "7 days", "6 months", "1 year", "2 years"}}
	shoeSizes = attr{"shoe size", []string{"36", "37", "38", "39", "40", "41", "42", "43"}}
)

// adjectives by language, in order of meaning.
var adjectives = map[string][]string{
	"en":  {"portable", "premium", "foldable", "waterproof", "lightweight", "heavy duty", "mini", "classic", "rechargeable", "korean style"},
	"fil": {"pambiyahe", "de-kalidad", "natitiklop", "hindi nababasa", "magaan", "matibay", "maliit", "klasiko", "nare-recharge", "estilong koreano"},
	"id":  {"portabel", "premium", "lipat", "tahan air", "ringan", "tahan lama", "mini", "klasik", "isi ulang", "gaya korea"},
	"vi":  {"di động", "cao cấp", "gấp gọn", "chống nước", "siêu nhẹ", "siêu bền", "mini", "cổ điển", "sạc lại", "phong cách hàn"},
	"th":  {"พกพา", "พรีเมียม", "พับได้", "กันน้ำ", "น้ำหนักเบา", "ทนทาน", "มินิ", "คลาสสิก", "ชาร์จได้", "สไตล์เกาหลี"},
	"zh":  {"便携", "高级", "折叠", "防水", "轻便", "加厚", "迷你", "经典", "充电式", "韩版"},
}

// closers end a title as shops like to.
var closers = map[string][]string{
	"en":  {"original", "best seller", "new arrival", "on hand", "free gift", "for home and travel"},
	"fil": {"orihinal", "pinakamabenta", "bagong dating", "may stock", "may regalo", "pambahay at biyahe"},
	"id":  {"asli", "terlaris", "produk baru", "siap kirim", "gratis hadiah", "untuk rumah dan perjalanan"},
	"vi":  {"chính hãng", "bán chạy", "hàng mới về", "có sẵn", "tặng quà", "cho gia đình và du lịch"},
	"th":  {"ของแท้", "ขายดี", "สินค้าใหม่", "พร้อมส่ง", "แถมของขวัญ", "สำหรับบ้านและเดินทาง"},
	"zh":  {"正品", "热卖", "新品", "现货", "送赠品", "家用旅行"},
}

// sentences of descriptions in English; %s is the product's name.
var sentences = []string{
	"The %s is checked by hand before it leaves our store.",
	"Made for daily use at home, in the office and on the way.",
	"Please choose the option you like before you check out.",
	"Colours may differ a little from the pictures because of light and screens.",
	"We ship within two working days from our own warehouse.",
	"If the %s arrives damaged, send us a photo and we replace it.",
	"Wipe with a soft dry cloth; do not use strong cleaners.",
	"Many of our customers order the %s again as a present.",
	"Measured by hand, so please allow a difference of one to two centimetres.",
	"The package holds one piece unless the title says otherwise.",
}

// syllables make brands.
var syllables = []string{"ka", "lo", "ven", "tri", "mo", "sol", "na", "pel", "ri", "dox", "um", "bra", "fen", "zu", "hal", "ste", "vi", "gor", "qui", "lan"}

// shopWords make names of shops.
var shopWords = []string{"corner", "house", "mart", "depot", "studio", "supply", "market", "outlet", "trading", "collective", "hub", "general store"}

var categories = []category{
	{"kitchen > electric kettles", map[string][]string{
		"en": {"electric kettle", "travel kettle"}, "fil": {"takureng de-kuryente"}, "id": {"teko listrik"}, "vi": {"ấm đun nước điện"}, "th": {"กาต้มน้ำไฟฟ้า"}, "zh": {"电热水壶"},
	}, []attr{{"capacity", []string{"0.6l", "0.8l", "1.2l", "1.7l", "2l"}}, {"material", []string{"stainless steel", "glass", "silicone", "plastic"}}, warranty}, []attr{colours, plugs}, 250, 2200, nil},
	{"kitchen > lunch boxes", map[string][]string{
		"en": {"lunch box", "bento box"}, "fil": {"baunan"}, "id": {"kotak makan"}, "vi": {"hộp cơm"}, "th": {"กล่องข้าว"}, "zh": {"饭盒", "便当盒"},
	}, []attr{{"material", []string{"stainless steel", "wheat straw", "plastic", "glass"}}, {"compartments", []string{"1", "2", "3", "4"}}, {"microwave safe", []string{"yes", "no"}}}, []attr{colours}, 60, 700, nil},
	{"kitchen > frying pans", map[string][]string{
		"en": {"non stick frying pan", "skillet"}, "fil": {"kawali"}, "id": {"wajan anti lengket"}, "vi": {"chảo chống dính"}, "th": {"กระทะเคลือบ"}, "zh": {"不粘平底锅"},
	}, []attr{{"material", []string{"aluminium", "cast iron", "carbon steel", "ceramic"}}, {"induction", []string{"yes", "no"}}}, []attr{{"diameter", []string{"20cm", "24cm", "26cm", "28cm", "30cm"}}}, 180, 2600, nil},
	{"groceries > instant coffee", map[string][]string{
		"en": {"instant coffee mix", "3 in 1 coffee"}, "fil": {"kapeng instant"}, "id": {"kopi instan"}, "vi": {"cà phê hòa tan"}, "th": {"กาแฟสำเร็จรูป"}, "zh": {"速溶咖啡"},
	}, []attr{{"flavor", []string{"original", "white coffee", "hazelnut", "mocha", "caramel"}}, {"halal", []string{"yes", "no"}}, {"sugar", []string{"regular", "less sugar", "no sugar"}}}, []attr{{"pack", []string{"10 sachets", "20 sachets", "30 sachets", "50 sachets"}}}, 45, 600, nil},
	{"groceries > cheese", map[string][]string{
		"en": {"processed cheese slices", "cheddar cheese"}, "fil": {"hiniwang keso"}, "id": {"keju lembaran"}, "vi": {"phô mai lát"}, "th": {"ชีสแผ่น"}, "zh": {"芝士片"},
	}, []attr{{"healthier choice", []string{"yes", "no"}}, {"milk", []string{"cow", "goat", "mixed"}}, {"storage", []string{"chilled", "room temperature"}}}, []attr{{"weight", []string{"150g", "200g", "250g", "400g", "500g"}}}, 50, 550, nil},
	{"groceries > rice noodles", map[string][]string{
		"en": {"rice noodles", "rice vermicelli"}, "fil": {"bihon"}, "id": {"bihun"}, "vi": {"bún gạo khô"}, "th": {"เส้นหมี่"}, "zh": {"米粉"},
	}, []attr{{"gluten free", []string{"yes", "no"}}, {"origin", []string{"vietnam", "thailand", "philippines", "malaysia"}}}, []attr{{"weight", []string{"200g", "400g", "500g", "1kg"}}}, 20, 260, nil},
	{"beauty > hair brushes", map[string][]string{
		"en": {"hair brush", "detangling comb"}, "fil": {"suklay"}, "id": {"sisir rambut"}, "vi": {"lược chải tóc"}, "th": {"หวีแปรงผม"}, "zh": {"梳子"},
	}, []attr{{"material", []string{"plastic", "bamboo", "wood", "metal"}}, {"pattern", []string{"plain", "cartoon", "floral", "marble"}}, {"with stones", []string{"yes", "no"}}}, []attr{colours}, 25, 380, nil},
	{"beauty > sunscreen", map[string][]string{
		"en": {"sunscreen lotion", "sun cream"}, "fil": {"pamprotekta sa araw"}, "id": {"tabir surya"}, "vi": {"kem chống nắng"}, "th": {"ครีมกันแดด"}, "zh": {"防晒霜"},
	}, []attr{{"spf", []string{"spf 30", "spf 50", "spf 50+"}}, {"skin type", []string{"oily", "dry", "sensitive", "all"}}, {"cruelty free", []string{"yes", "no"}}}, []attr{{"volume", []string{"30ml", "50ml", "100ml", "150ml"}}}, 120, 1500, nil},
	{"beauty > lipstick", map[string][]string{
		"en": {"matte lipstick", "lip tint"}, "fil": {"lipstik"}, "id": {"lipstik matte"}, "vi": {"son lì"}, "th": {"ลิปสติกแมท"}, "zh": {"哑光口红"},
	}, []attr{{"finish", []string{"matte", "satin", "glossy", "velvet"}}, {"long lasting", []string{"yes", "no"}}, {"vegan", []string{"yes", "no"}}}, []attr{{"shade", []string{"rosewood", "coral", "cherry", "nude", "plum", "brick"}}}, 80, 1300, nil},
	{"bags > backpacks", map[string][]string{
		"en": {"laptop backpack", "school backpack"}, "fil": {"bakpak"}, "id": {"tas ransel"}, "vi": {"ba lô laptop"}, "th": {"กระเป๋าเป้"}, "zh": {"双肩背包"},
	}, []attr{{"material", []string{"polyester", "canvas", "nylon", "leather"}}, {"laptop size", []string{"13 inch", "14 inch", "15.6 inch", "17 inch"}}, {"usb port", []string{"yes", "no"}}}, []attr{colours}, 220, 3800, nil},
	{"bags > wallets", map[string][]string{
		"en": {"wallet", "card holder"}, "fil": {"pitaka"}, "id": {"dompet"}, "vi": {"ví da"}, "th": {"กระเป๋าสตางค์"}, "zh": {"钱包"},
	}, []attr{{"material", []string{"polyester", "leather", "canvas", "synthetic leather"}}, {"pattern", []string{"plain", "cartoon", "checked", "embossed"}}, {"rfid", []string{"yes", "no"}}}, []attr{colours}, 70, 1600, nil},
	{"bags > waist bags", map[string][]string{
		"en": {"waist bag", "motorcycle leg bag"}, "fil": {"belt bag"}, "id": {"tas pinggang"}, "vi": {"túi đeo hông"}, "th": {"กระเป๋าคาดเอว"}, "zh": {"腰包"},
	}, []attr{{"material", []string{"oxford", "nylon", "canvas", "leather"}}, {"closure", []string{"zipper", "buckle", "magnetic"}}, {"reflective", []string{"yes", "no"}}}, []attr{colours}, 90, 1400, nil},
	{"fashion > t-shirts", map[string][]string{
		"en": {"cotton t-shirt", "oversized tee"}, "fil": {"kamisetang cotton"}, "id": {"kaos katun"}, "vi": {"áo thun cotton"}, "th": {"เสื้อยืดผ้าฝ้าย"}, "zh": {"纯棉t恤"},
	}, []attr{{"neckline", []string{"round neck", "v-neck", "polo collar"}}, {"sleeve", []string{"short sleeve", "long sleeve", "sleeveless"}}, {"pattern", []string{"plain", "striped", "graphic print", "tie dye"}}}, []attr{colours, sizes}, 90, 1100, nil},
	{"fashion > running shoes", map[string][]string{
		"en": {"running shoes", "sneakers"}, "fil": {"sapatos na pantakbo"}, "id": {"sepatu lari"}, "vi": {"giày chạy bộ"}, "th": {"รองเท้าวิ่ง"}, "zh": {"跑步鞋"},
	}, []attr{{"upper", []string{"mesh", "knit", "synthetic leather"}}, {"sole", []string{"eva", "rubber", "foam"}}, {"gender", []string{"men", "women", "unisex"}}}, []attr{shoeSizes, colours}, 450, 6500, nil},
	{"fashion > wrist watches", map[string][]string{
		"en": {"wrist watch", "digital watch"}, "fil": {"relong pambisig"}, "id": {"jam tangan"}, "vi": {"đồng hồ đeo tay"}, "th": {"นาฬิกาข้อมือ"}, "zh": {"手表"},
	}, []attr{{"strap", []string{"leather", "stainless steel", "silicone", "nylon"}}, {"movement", []string{"quartz", "automatic", "digital", "solar"}}, warranty}, []attr{colours}, 150, 9000, nil},
	{"electronics > earphones", map[string][]string{
		"en": {"wireless earbuds", "bluetooth earphones"}, "fil": {"wireless na earphone"}, "id": {"earphone nirkabel"}, "vi": {"tai nghe không dây"}, "th": {"หูฟังไร้สาย"}, "zh": {"无线耳机"},
	}, []attr{{"bluetooth", []string{"5.0", "5.1", "5.3", "5.4"}}, {"noise cancelling", []string{"yes", "no"}}, {"battery life", []string{"12 hours", "24 hours", "36 hours", "48 hours"}}, warranty}, []attr{colours}, 250, 7800, nil},
	{"electronics > power banks", map[string][]string{
		"en": {"power bank", "fast charging power bank"}, "fil": {"powerbank"}, "id": {"bank daya"}, "vi": {"sạc dự phòng"}, "th": {"แบตสำรอง"}, "zh": {"充电宝"},
	}, []attr{{"capacity", []string{"5000mah", "10000mah", "20000mah", "30000mah"}}, {"ports", []string{"1", "2", "3", "4"}}, {"wireless charging", []string{"yes", "no"}}, warranty}, []attr{colours}, 300, 3600, nil},
	{"electronics > desk lamps", map[string][]string{
		"en": {"led desk lamp", "reading lamp"}, "fil": {"lamparang pang-mesa"}, "id": {"lampu meja led"}, "vi": {"đèn bàn led"}, "th": {"โคมไฟตั้งโต๊ะ"}, "zh": {"护眼台灯"},
	}, []attr{{"power source", []string{"usb", "battery", "mains"}}, {"light", []string{"warm white", "cool white", "three colours"}}, {"dimmable", []string{"yes", "no"}}}, []attr{colours, plugs}, 150, 2400, nil},
	{"electronics > keyboards", map[string][]string{
		"en": {"mechanical keyboard", "wireless keyboard"}, "fil": {"mekanikal na keyboard"}, "id": {"papan ketik mekanik"}, "vi": {"bàn phím cơ"}, "th": {"คีย์บอร์ดเกมมิ่ง"}, "zh": {"机械键盘"},
	}, []attr{{"layout", []string{"60%", "75%", "tkl", "full size"}}, {"backlight", []string{"rgb", "white", "none"}}, {"connection", []string{"wired", "2.4ghz", "bluetooth", "triple mode"}}}, []attr{{"switch", []string{"red switch", "blue switch", "brown switch"}}, colours}, 400, 8200, nil},
	{"home > bed sheets", map[string][]string{
		"en": {"fitted bed sheet", "bedsheet set"}, "fil": {"kubrekama"}, "id": {"sprei"}, "vi": {"ga trải giường"}, "th": {"ผ้าปูที่นอน"}, "zh": {"床单四件套"},
	}, []attr{{"material", []string{"cotton", "microfiber", "bamboo fibre", "silk"}}, {"pattern", []string{"plain", "floral", "geometric", "cartoon"}}, {"pieces", []string{"1", "3", "4", "5"}}}, []attr{{"bed size", []string{"single", "double", "queen", "king"}}, colours}, 180, 3400, nil},
	{"home > storage boxes", map[string][]string{
		"en": {"storage box", "storage organizer"}, "fil": {"kahon na imbakan"}, "id": {"kotak penyimpanan"}, "vi": {"hộp đựng đồ"}, "th": {"กล่องเก็บของ"}, "zh": {"收纳箱"},
	}, []attr{{"material", []string{"plastic", "fabric", "bamboo", "acrylic"}}, {"with lid", []string{"yes", "no"}}, {"stackable", []string{"yes", "no"}}}, []attr{{"volume", []string{"10l", "25l", "45l", "70l"}}, colours}, 60, 1300, nil},
	{"home > mosquito nets", map[string][]string{
		"en": {"mosquito net", "pop up mosquito net"}, "fil": {"kulambo"}, "id": {"kelambu"}, "vi": {"màn chống muỗi"}, "th": {"มุ้งครอบ"}, "zh": {"蚊帐"},
	}, []attr{{"opening", []string{"one door", "two doors", "three doors"}}, {"bottom", []string{"yes", "no"}}}, []attr{{"bed size", []string{"single", "double", "queen", "king"}}, colours}, 120, 1500, nil},
	{"sports > yoga mats", map[string][]string{
		"en": {"yoga mat", "exercise mat"}, "fil": {"banig sa yoga"}, "id": {"matras yoga"}, "vi": {"thảm yoga"}, "th": {"เสื่อโยคะ"}, "zh": {"瑜伽垫"},
	}, []attr{{"material", []string{"tpe", "pvc", "natural rubber", "nbr"}}, {"thickness", []string{"4mm", "6mm", "8mm", "10mm", "15mm"}}, {"with strap", []string{"yes", "no"}}}, []attr{colours}, 180, 2300, nil},
	{"sports > water bottles", map[string][]string{
		"en": {"water bottle", "vacuum tumbler"}, "fil": {"bote ng tubig"}, "id": {"botol minum"}, "vi": {"bình giữ nhiệt"}, "th": {"กระบอกน้ำ"}, "zh": {"保温杯"},
	}, []attr{{"material", []string{"stainless steel", "tritan", "glass", "aluminium"}}, {"insulated", []string{"yes", "no"}}, {"lid", []string{"straw", "screw", "flip"}}}, []attr{{"capacity", []string{"350ml", "500ml", "750ml", "1l", "2l"}}, colours}, 80, 1900, nil},
	{"pets > cat litter", map[string][]string{
		"en": {"cat litter", "tofu cat litter"}, "fil": {"dumihan ng pusa"}, "id": {"pasir kucing"}, "vi": {"cát vệ sinh mèo"}, "th": {"ทรายแมว"}, "zh": {"猫砂"},
	}, []attr{{"material", []string{"bentonite", "tofu", "crystal", "pine"}}, {"scent", []string{"unscented", "lavender", "green tea", "lemon"}}, {"clumping", []string{"yes", "no"}}}, []attr{{"weight", []string{"2.5kg", "5kg", "10kg", "25kg"}}}, 110, 1400, nil},
	{"baby > feeding bottles", map[string][]string{
		"en": {"baby feeding bottle", "anti colic bottle"}, "fil": {"bote ng sanggol"}, "id": {"botol susu bayi"}, "vi": {"bình sữa"}, "th": {"ขวดนม"}, "zh": {"婴儿奶瓶"},
	}, []attr{{"material", []string{"pp", "ppsu", "glass", "silicone"}}, {"neck", []string{"standard neck", "wide neck"}}, {"bpa free", []string{"yes", "no"}}}, []attr{{"capacity", []string{"120ml", "160ml", "240ml", "300ml"}}, colours}, 90, 1200, nil},
	{"motors > helmets", map[string][]string{
		"en": {"half face helmet", "motorcycle helmet"}, "fil": {"helmet ng motor"}, "id": {"helm motor"}, "vi": {"mũ bảo hiểm"}, "th": {"หมวกกันน็อค"}, "zh": {"摩托车头盔"},
	}, []attr{{"visor", []string{"single visor", "dual visor", "no visor"}}, {"certification", []string{"icc", "dot", "ece", "sni"}}, {"removable liner", []string{"yes", "no"}}}, []attr{sizes, colours}, 450, 5600, nil},
	{"stationery > gel pens", map[string][]string{
		"en": {"gel pen set", "ballpoint pen set"}, "fil": {"set ng bolpen"}, "id": {"set pulpen gel"}, "vi": {"bộ bút gel"}, "th": {"ชุดปากกาเจล"}, "zh": {"中性笔套装"},
	}, []attr{{"tip", []string{"0.38mm", "0.5mm", "0.7mm", "1.0mm"}}, {"erasable", []string{"yes", "no"}}, {"quick dry", []string{"yes", "no"}}}, []attr{{"pack", []string{"3 pieces", "6 pieces", "12 pieces", "24 pieces"}}, {"ink", []string{"black", "blue", "red", "assorted"}}}, 20, 350, nil},
}
