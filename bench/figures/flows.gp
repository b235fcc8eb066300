# gnuplot -e "folder='…'" flows.gp: flows.csv of that folder (bench/flow_figures) becomes plots.
set terminal svg size 760,420 font "sans,12" noenhanced
set datafile separator ","
set grid
set style data histograms
set style fill solid 0.8
set yrange [0:*]
set ylabel "Mpackets/s of the seconds that threads ran"
rows(figure, trace) = sprintf("< grep '^%s,%s,' '%s/flows.csv'", figure, trace, folder)
sharing(cores, trace) = sprintf("< grep '^sharing,%s,' '%s/flows.csv' | awk -F, '$6 == %d'", trace, folder, cores)

set output folder."/flow-tables.svg"
plot rows("tables", "campus") using 9:xtic(3) title "campus", rows("tables", "caida") using 9 title "CAIDA"

set xtics rotate by -25
set output folder."/flow-sharing.svg"
plot for [t in "campus caida"] for [n=1:2] sharing(n, t) using 9:xtic(stringcolumn(3).", ".stringcolumn(4)) \
     title sprintf("%s, %d core%s", t, n, n > 1 ? "s" : "")

set output folder."/flow-deletion.svg"
plot rows("deletion", "campus") using 9:xtic(stringcolumn(3).", ".stringcolumn(5)) title "campus", \
     rows("deletion", "caida") using 9 title "CAIDA"

set output folder."/flow-longest.svg"
set logscale y
set yrange [1:*]
set ylabel "the longest burst of 64 packets, µs"
plot rows("deletion", "campus") using 11:xtic(stringcolumn(3).", ".stringcolumn(5)) title "campus", \
     rows("deletion", "caida") using 11 title "CAIDA"
unset logscale

set output folder."/flow-open.svg"
set yrange [0:*]
set ylabel "ticks of the time-stamp counter to open a flow"
plot for [t in "campus caida"] for [n=1:2] sharing(n, t) using 10:xtic(stringcolumn(3).", ".stringcolumn(4)) \
     title sprintf("%s, %d core%s", t, n, n > 1 ? "s" : "")
