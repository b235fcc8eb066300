# gnuplot -e "folder='…'" figures.gp: the CSV files of figures.py in that folder become SVG files.
set terminal svg size 640,400 font "sans,12"
set datafile separator ","
set grid
policies = "leases clockwork clockwork0 deferred"
rows(file, how) = sprintf("< grep ',%s,' '%s/%s.csv'", how, folder, file)

set key bottom right
set logscale x
set output folder."/deadlines.svg"
set xlabel "deadline, ms"
set ylabel "in time, %"
plot for [p in policies] rows("deadlines", p) using 1:9 with linespoints title p

set output folder."/tighten.svg"
set xlabel "deadline over the model's time"
plot for [p in policies] rows("tighten", p) using 1:9 with linespoints title p

unset logscale x
set key top left
set output folder."/overload.svg"
set xlabel "offered requests a second"
set ylabel "in time, a second"
plot for [p in policies] rows("overload", p) using 1:8 with linespoints title p

set key bottom left
set output folder."/isolation.svg"
set xlabel "offered requests a second"
set ylabel "tight ones in time, %"
plot for [p in policies] rows("isolation", p) using 1:15 with linespoints title p

set key top left
set logscale x
set output folder."/goodput.svg"
set xlabel "deadline, ms"
set ylabel "requests a second with 99 % in time"
plot for [p in policies] sprintf("< grep ',v100,%s,' '%s/goodput.csv'", p, folder) using 1:4 with linespoints title p
